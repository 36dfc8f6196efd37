"""The families of Hugging Face's models that Transom has, by their `model_type`."""

from transom.models.hugging_face.bart import BART
from transom.models.hugging_face.bert import BERT
from transom.models.hugging_face.distilbert import DISTILBERT
from transom.models.hugging_face.family import Family
from transom.models.hugging_face.gpt2 import GPT2
from transom.models.hugging_face.llama import LLAMA
from transom.models.hugging_face.marian import MARIAN
from transom.models.hugging_face.mistral import MISTRAL
from transom.models.hugging_face.pegasus import PEGASUS
from transom.models.hugging_face.qwen2 import QWEN2
from transom.models.hugging_face.qwen3 import QWEN3
from transom.models.hugging_face.roberta import ROBERTA
from transom.models.hugging_face.t5 import T5

# In the order in which `to_hugging_face` tries them.
DECODERS = (GPT2, LLAMA, MISTRAL, QWEN2, QWEN3)
ENCODERS = (BERT, ROBERTA, DISTILBERT)
ENCODER_DECODERS = (MARIAN, PEGASUS, BART, T5)
FAMILIES: dict[str, Family] = {family.name: family for family in (*DECODERS, *ENCODERS, *ENCODER_DECODERS)}
