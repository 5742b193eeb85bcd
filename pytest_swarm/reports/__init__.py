"""Reports: every one of them reads test records (`record.py`), which are plain data, and measures nothing itself."""
