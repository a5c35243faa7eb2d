"""Settings into the parts of one session: image, container, tools, model, permissions. `bootstrap` joins them."""
