"""What the template cannot do, in one sentence and a remedy."""


class TemplateError(ValueError):
    """An epilogue that is well formed and that the GEMM underneath cannot run."""

    def __init__(self, message: str, remedy: str = "", code: str = "template"):
        super().__init__(f"{message} {remedy}".strip())
        self.message, self.remedy, self.code = message, remedy, code
