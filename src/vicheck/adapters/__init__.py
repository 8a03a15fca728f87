"""The only place that knows foreign formats and libraries, one file for each."""
