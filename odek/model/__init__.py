"""The conversation with a language model: types, wire format, transport, replay."""
