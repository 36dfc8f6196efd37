"""What stands around the words of a user in the chats that a model was trained on.

A chat template is a program that comes with a model, so it is never run: it is only searched for the marks of a known
form, and the form is written here. A system message that a template may add is left out.
"""

CHAT_FRAMES = {
    "<|im_start|>": ("<|im_start|>user\n", "<|im_end|>\n<|im_start|>assistant\n"),
    "<|start_header_id|>": (
        "<|start_header_id|>user<|end_header_id|>\n\n",
        "<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n",
    ),
    "<start_of_turn>": ("<start_of_turn>user\n", "<end_of_turn>\n<start_of_turn>model\n"),
    "[INST]": ("[INST] ", " [/INST]"),
}


def find_chat_frame(template: object) -> tuple[str, str] | None:
    """What stands before and after a user's words; None without a template, or with one of an unknown form."""
    text = template if isinstance(template, str) else ""
    return next((frame for mark, frame in CHAT_FRAMES.items() if mark in text), None)
