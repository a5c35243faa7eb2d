"""The recorded model and the scratch project of `odek demo`. Data only, as modules, so that it travels in the one file."""
