"""Cassettes: exchanges kept in files that plain vcrpy can read, with the time of every piece beside them."""
