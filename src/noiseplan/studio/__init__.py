"""The planning page: a study is designed in the browser, on this machine only, without any data."""
