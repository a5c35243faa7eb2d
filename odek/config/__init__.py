"""Settings from their layers, each value with its source.

- options.py: the table of every setting; all else derives from it
- jsonfile.py: one configuration file: bytes to a JSON object, or an error that says where
- secretfile.py: ~/.odek/secrets.env
- variables.py: ${VAR} in values
- values.py, danger.py: one value of one option: typed, in range, or refused
- unknown.py: names that no option has
- layers.py: files, environment and flags to layers
- resolve.py, assemble.py: layers to Settings; what the project changes
- settings.py: the result
- view.py, schema.py, template.py, reference.py: what is shown and written from the table
"""
