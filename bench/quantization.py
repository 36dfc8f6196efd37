"""Does a model in int8 write what it writes in float32?

Translates the first sentences of a recipe's test set with the model as it is and with its matrices rounded to int8, and
prints for how many the text is the same, and the BLEU of both.

    python -m bench.quantization RECIPE --model FOLDER [--sentences 1000] [--beams 4] [--set KEY=VALUE] [--json]
"""

import argparse
from pathlib import Path

import torch

from bench.measuring.instruments import note, print_answer
from transom.models import EncoderDecoder
from transom.models.quantization import dequantize_rows, quantize_rows
from transom.text.corpora import Pair
from transom.training.dataset import train_and_validation
from transom.training.evaluation_metrics import group_references, score_translations
from transom.training.inference import load_for_task, translate
from transom.training.recipe import load_recipe


def main() -> None:
    """Translate twice and print."""
    parser = argparse.ArgumentParser(prog="python -m bench.quantization", description="int8 beside float32")
    parser.add_argument("recipe", type=Path)
    parser.add_argument("--model", type=Path, required=True, help="the folder of a model in float32")
    parser.add_argument("--sentences", type=int, default=1000)
    parser.add_argument("--beams", type=int, default=4)
    parser.add_argument("--set", dest="sets", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--json", action="store_true", help="JSON instead of lines")
    options = parser.parse_args()
    _, pairs = train_and_validation(load_recipe(options.recipe, options.sets), Pair, on_test_set=True)
    sources, targets = group_references(pairs)
    sources, targets = sources[: options.sentences], targets[: options.sentences]
    model, tokenizer = load_for_task(options.model, "encoder_decoder")
    assert isinstance(model, EncoderDecoder)
    note(f"{len(sources)} sentences in float32 …")
    whole = translate(model, tokenizer, sources, options.beams)
    round_matrices(model)
    note(f"{len(sources)} sentences in int8 …")
    rounded = translate(model, tokenizer, sources, options.beams)
    result = {"sentences": len(sources), "same": sum(map(str.__eq__, whole, rounded)) / len(sources)}
    result |= {"bleu_float32": score_translations(whole, targets).bleu}
    result |= {"bleu_int8": score_translations(rounded, targets).bleu}
    print_answer(options, result, "\n".join(f"{name:<14}{value:.4g}" for name, value in result.items()))


def round_matrices(model: EncoderDecoder) -> None:
    """Every matrix as it would be after int8 on disk."""
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim == 2:
                parameter.copy_(dequantize_rows(*quantize_rows(parameter)))


if __name__ == "__main__":
    main()
