"""A simulated gateway: seeded systems, described by data, that answer like real ones and at no cost.

`reception` takes requests in and `engine` decides what becomes of them; `source` and `http_front` are its two fronts.
"""
