"""What operators write: YAML files to frozen values, every error with file, line and key; knows every check's Want."""
