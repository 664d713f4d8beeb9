"""Two plain products."""

from codasmith.primitives import epilogue


@epilogue
def input(acc):
    return {"dx": acc}


@epilogue
def weight(acc):
    return {"dw": acc}
