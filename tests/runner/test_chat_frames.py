"""A chat's form is known by the marks in a model's template, which is never run."""

import pytest
from jinja2.sandbox import ImmutableSandboxedEnvironment

from transom.runner.chat_frames import CHAT_FRAMES, find_chat_frame

# Templates as they are published, without tools and dates: the words of a user, and the beginning of an answer.
TEMPLATES = {
    "<|im_start|>": "{% for m in messages %}{{'<|im_start|>' + m['role'] + '\n' + m['content'] + '<|im_end|>' + '\n'}}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}",
    "<|start_header_id|>": "{% for m in messages %}{{ '<|start_header_id|>' + m['role'] + '<|end_header_id|>\n\n'"
    " + m['content'] | trim + '<|eot_id|>' }}{% endfor %}{% if add_generation_prompt %}"
    "{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{% endif %}",
    "<start_of_turn>": "{% for m in messages %}{{ '<start_of_turn>' + m['role'] + '\n' + m['content'] | trim +"
    " '<end_of_turn>\n' }}{% endfor %}{% if add_generation_prompt %}{{'<start_of_turn>model\n'}}{% endif %}",
    "[INST]": "{% for m in messages %}{{ '[INST] ' + m['content'] + ' [/INST]' }}{% endfor %}",
}


@pytest.mark.parametrize("mark", CHAT_FRAMES)
def test_a_frame_is_what_the_template_writes(mark):
    template = TEMPLATES[mark]
    before, after = CHAT_FRAMES[mark]
    assert find_chat_frame(template) == (before, after)
    environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
    messages = [{"role": "user", "content": "Who came?"}]
    rendered = environment.from_string(template).render(messages=messages, add_generation_prompt=True)
    assert rendered == f"{before}Who came?{after}"


@pytest.mark.parametrize("template", [None, "", {"default": "<|im_start|>"}, "{{ messages[0].content }}"])
def test_no_template_and_an_unknown_form_have_no_frame(template):
    assert find_chat_frame(template) is None
