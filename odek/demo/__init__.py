"""The recorded model and the scratch project of `odek demo`: data, as modules, so that the one file holds it."""
