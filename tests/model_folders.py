"""Small random models in folders, of Transom's and of Hugging Face's, each with a tokenizer of these words."""

from pathlib import Path

import torch

from transom.models import Decoder, DecoderConfig, Encoder, EncoderConfig, EncoderDecoder, EncoderDecoderConfig
from transom.text.tokenizer import Tokenizer

TEXTS = ["the cat sat on the mat", "a dog saw the cat", "we know where she lives", "the old dog sat"]
SIZES = {"d_model": 12, "heads": 3, "d_hidden": 17, "longest": 37}
HUGGING_FACE = {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}


def of_transom(kind: str, folder: Path) -> Path:
    """A folder of Transom's."""
    torch.manual_seed(11)
    tokenizer = Tokenizer.train("bpe", TEXTS, 300)
    model = {
        "encoder": lambda: Encoder(EncoderConfig(vocabulary=tokenizer.size, layers=2, labels=("no", "yes"), **SIZES)),
        "decoder": lambda: Decoder(DecoderConfig(vocabulary=tokenizer.size, layers=2, **SIZES)),
        "encoder_decoder": lambda: EncoderDecoder(
            EncoderDecoderConfig(vocabulary=tokenizer.size, encoder_layers=2, decoder_layers=1, **SIZES)
        ),
    }[kind]()
    model.save_pretrained(folder, tokenizer)
    return folder


def of_hugging_face(kind: str, folder: Path) -> Path:
    """A folder of Hugging Face's: Llama, BERT or BART."""
    import transformers

    tokenizer = Tokenizer.train("words", TEXTS, 60)
    named = {"pad_token": "<pad>", "bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}
    theirs = transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer.engine, model_max_length=29, **named)
    torch.manual_seed(13)
    sizes = {"vocab_size": tokenizer.size, **HUGGING_FACE}
    layers = {"hidden_size": 12, "num_hidden_layers": 2, "num_attention_heads": 3, "intermediate_size": 17}
    sides = {f"{side}_{what}": n for side in ("encoder", "decoder") for what, n in (("layers", 1), ("ffn_dim", 17))}
    sides |= {"encoder_attention_heads": 3, "decoder_attention_heads": 3, "d_model": 12, "decoder_start_token_id": 1}
    model = {
        "decoder": lambda: transformers.LlamaForCausalLM(
            transformers.LlamaConfig(**sizes, **layers, num_key_value_heads=1, head_dim=4)
        ),
        "encoder": lambda: transformers.BertForMaskedLM(transformers.BertConfig(**sizes, **layers)),
        "encoder_decoder": lambda: transformers.BartForConditionalGeneration(
            transformers.BartConfig(**sizes, **sides, max_length=17, forced_eos_token_id=2)
        ),
    }[kind]()
    model.save_pretrained(folder)
    theirs.save_pretrained(folder)
    return folder


MAKERS = {"transom": of_transom, "hf": of_hugging_face}
KINDS = [(origin, kind) for origin in MAKERS for kind in ("encoder", "decoder", "encoder_decoder")]
