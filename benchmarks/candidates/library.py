"""The reference under the name ModelNew: library calls alone. Appended to a problem's text."""


class ModelNew(Model):  # noqa: F821  the problem's own
    pass
