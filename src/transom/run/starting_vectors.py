"""An embedding that starts from word vectors."""

from transom.layers import Embedding
from transom.names import Misfit
from transom.run.recipe import Vectors
from transom.text.tokenizer import Tokenizer
from transom.text.vectors import word_vectors


def start_from_vectors(embedding: Embedding, tokenizer: Tokenizer, asked: Vectors) -> str:
    """Put the file's vectors into the embedding, frozen or to be tuned; gives a line on how many words it knew."""
    special = len(tokenizer.special)
    found = word_vectors(asked.file, tokenizer.tokens[special:])
    width = found.vectors.shape[1]
    if width != embedding.d_model:
        raise Misfit(
            f"the vectors in {asked.file} are {width} wide, but model.d_model is {embedding.d_model};"
            f" set model.d_model = {width}"
        )
    # The embedding multiplies by its own scale; what comes out of it should be what was asked for.
    embedding.vectors.data[special:] = found.vectors * (asked.scale / embedding.scale)
    embedding.vectors.requires_grad_(not asked.frozen)
    return f"{asked.file}: {found.coverage}"
