import pytest
import torch


@pytest.fixture(scope="session", autouse=True)
def one_thread():
    """Small tensors gain nothing from more threads, and lose much on a busy machine."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
