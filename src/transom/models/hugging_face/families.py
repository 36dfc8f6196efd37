"""The families of Hugging Face's models that Transom has, by their `model_type`."""

from transom.models.hugging_face.family import Family
from transom.models.hugging_face.gpt2 import GPT2
from transom.models.hugging_face.llama import LLAMA
from transom.models.hugging_face.mistral import MISTRAL
from transom.models.hugging_face.qwen2 import QWEN2
from transom.models.hugging_face.qwen3 import QWEN3

# In the order in which `to_hugging_face` tries them.
FAMILIES: dict[str, Family] = {family.name: family for family in (GPT2, LLAMA, MISTRAL, QWEN2, QWEN3)}
