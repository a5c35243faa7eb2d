"""Settings from their layers, each with its source.

- options.py: the table of every setting; all else derives from it
- sources.py: the files: both settings files and ~/.odek/secrets.env
- values.py, danger.py: one value of one option: typed, in range, or refused; ${VAR} in values
- layers.py: files, environment and flags to layers; names that no option has
- resolve.py: layers to Settings; what the project changes
- settings.py: the result
- view.py, schema.py, reference.py: what is shown and written from the table
"""
