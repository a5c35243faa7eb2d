"""Settings from their layers, each with its source.

- settings.py: every setting, one row each, and the settings in force; all else is derived from the rows
- options.py: what a row is: its key, kind, places, and what a project may do with it
- values.py: the kinds of values: typed, in range, or refused; ${VAR} in values
- danger.py: the `dangerous` object
- provider.py: the providers known by name
- sources.py: the files: both settings files and ~/.odek/secrets.env
- layers.py: files, environment and flags to layers; names that no option has
- resolve.py: layers to Settings; what the project changes
- view.py, schema.py: what is shown and written from the rows
"""
