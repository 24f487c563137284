"""What is limited is divided so that each client has something."""

from alula._shares import Shares


def test_a_client_alone_has_half():
    shares = Shares(100)
    assert shares.take("a", 50)
    assert not shares.has_room("a", 1)
    assert not shares.take("a", 1)


def test_many_clients_share():
    shares = Shares(1_000)
    taken = [0, 0, 0, 0]
    for _ in range(1_000):
        for client in range(4):
            taken[client] += shares.take(client, 1)
    assert sum(taken) <= 1_000
    assert min(taken) >= 100
    assert shares.take("new", 1)


def test_the_server_itself_may_have_all():
    shares = Shares(10)
    assert shares.take(None, 10)
    assert not shares.take(None, 1)
    shares.give_back(None, 10)
    assert shares.take(None, 10)


def test_what_is_given_back_leaves_nothing():
    shares = Shares(10)
    shares.take("a", 3)
    shares.give_back("a", 1)
    shares.give_back("a", 2)
    assert shares._taken == {}
    assert shares._free == 10
