"""A llama model of half a megabyte with random weights: what it says is nonsense, how a real engine says it is not.

It says visible characters, without end: random weights as they come would also say half a character, or end at once,
and then an engine has nothing to send. A grammar can still make it say anything, and end. Needs the packages `gguf` and
`numpy` (extra `engine`).
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import gguf

EMBEDDING = 64
HEADS = 4
BLOCKS = 2
FEED_FORWARD = 128
CONTEXT = 2048
SEED = 0
STEADY = 0
"""The one dimension of the hidden state that is the same after every token, since no block writes to it."""
LEVEL = 3.0
"""The value of that dimension."""
MUTED = -100.0
"""What the steady dimension weighs for a token that is not to be said; the others' logits are some units."""

WORDS = (" the", " cat", " is", " red", " blue", " and", " a", " hello", " world", " one")
SPACE = chr(256 + 32)
"""GPT-2's printable letter for a space."""
CONTROLS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
CHAT_TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def write_tiny_model(path: Path) -> None:
    """Write the model to `path`; the same bytes every time."""
    import gguf

    writer = gguf.GGUFWriter(path, "llama")
    _add_shape(writer)
    tokens = _add_tokenizer(writer)
    _add_weights(writer, tokens)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _add_shape(writer: gguf.GGUFWriter) -> None:
    import gguf

    writer.add_name("tiny-random")
    writer.add_file_type(gguf.LlamaFileType.ALL_F32)
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(EMBEDDING)
    writer.add_block_count(BLOCKS)
    writer.add_feed_forward_length(FEED_FORWARD)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(HEADS)
    writer.add_rope_dimension_count(EMBEDDING // HEADS)
    writer.add_layer_norm_rms_eps(1e-5)


def _add_tokenizer(writer: gguf.GGUFWriter) -> list[str]:
    """One token per byte, the control tokens, and the words with their merges. Returns the tokens."""
    import gguf

    letters = _byte_letters()
    tokens = [letters[byte] for byte in range(256)] + list(CONTROLS)
    types = [gguf.TokenType.NORMAL] * 256 + [gguf.TokenType.CONTROL] * len(CONTROLS)
    merges: dict[str, None] = {}
    for word in WORDS:
        left, *rest = (letters[byte] for byte in word.encode())
        for letter in rest:
            merges[f"{left} {letter}"] = None
            left += letter
            if left not in tokens:
                tokens.append(left)
                types.append(gguf.TokenType.NORMAL)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(tokens)
    writer.add_token_types(types)
    writer.add_token_merges(list(merges))
    writer.add_vocab_size(len(tokens))
    writer.add_bos_token_id(tokens.index("<|endoftext|>"))
    writer.add_eos_token_id(tokens.index("<|im_end|>"))
    writer.add_add_bos_token(False)
    writer.add_chat_template(CHAT_TEMPLATE)
    return tokens


def _byte_letters() -> dict[int, str]:
    """GPT-2's printable letter for every byte: Latin-1 where it can be seen, code points from 256 on elsewhere."""
    visible = {*range(33, 127), *range(161, 173), *range(174, 256)}
    hidden = (byte for byte in range(256) if byte not in visible)
    letters = {byte: chr(byte) for byte in visible}
    return letters | {byte: chr(256 + position) for position, byte in enumerate(hidden)}


def _said(token: str) -> bool:
    """Whether the model says a token of its own accord: a word, or a byte that is a visible character by itself."""
    return token not in CONTROLS and all(33 <= ord(letter) < 127 or letter == SPACE for letter in token)


def _add_weights(writer: gguf.GGUFWriter, tokens: list[str]) -> None:
    import numpy as np

    random = np.random.default_rng(SEED)

    def matrix(rows: int, columns: int) -> Any:
        return (random.standard_normal((rows, columns)) * 0.3).astype(np.float32)

    def add(name: str, values: Any) -> None:
        writer.add_tensor(f"{name}.weight", values)

    def add_writing(name: str, columns: int) -> None:
        """A matrix whose result is added to the hidden state."""
        values = matrix(EMBEDDING, columns)
        values[STEADY] = 0
        add(name, values)

    embedding, output = matrix(len(tokens), EMBEDDING), matrix(len(tokens), EMBEDDING)
    embedding[:, STEADY] = LEVEL
    output[:, STEADY] = [0 if _said(token) else MUTED for token in tokens]
    add("token_embd", embedding)
    add("output", output)
    ones = np.ones(EMBEDDING, np.float32)
    add("output_norm", ones)
    for block in range(BLOCKS):
        for name in ("attn_q", "attn_k", "attn_v"):
            add(f"blk.{block}.{name}", matrix(EMBEDDING, EMBEDDING))
        add_writing(f"blk.{block}.attn_output", EMBEDDING)
        add(f"blk.{block}.ffn_gate", matrix(FEED_FORWARD, EMBEDDING))
        add(f"blk.{block}.ffn_up", matrix(FEED_FORWARD, EMBEDDING))
        add_writing(f"blk.{block}.ffn_down", FEED_FORWARD)
        add(f"blk.{block}.attn_norm", ones)
        add(f"blk.{block}.ffn_norm", ones)
