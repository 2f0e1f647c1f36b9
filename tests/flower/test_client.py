"""The client's side: what a FedProfClientApp does with a question."""

import pytest

pytest.importorskip("flwr", reason="needs the flower extra: pip install 'fedprof[flower]'")

from dataclasses import replace

import torch
from flower_fakes import Net, Node, client_app, loader, model
from flwr.app import ArrayRecord, ConfigRecord, Message, RecordDict
from flwr.clientapp import ClientApp

from fedprof.core.capture import profile
from fedprof.core.profile import Profile
from fedprof.errors import SettingsError
from fedprof.flower.client import fedprof_mod, fedprof_query
from fedprof.flower.protocol import KEY, QUERY, Answer, Question
from fedprof.matching import make, ring
from fedprof.matching.frames import unpack

pytestmark = pytest.mark.flower

DATA = loader(1)


def question(version=0, matching="plain", layer="fc1"):
    baseline = profile(model(), loader(99), "fc1", version=version)
    return Question(version, make(matching).server(baseline).ask(), layer=layer)


def send(node, asked, kind=QUERY, arrays=None):
    arrays = ArrayRecord(model().state_dict()) if arrays is None else arrays
    content = RecordDict({"arrays": arrays, "config": ConfigRecord({})})
    if asked is not None:
        content[KEY] = asked.to_record()
    return node(Message(content, 5, kind))


def taken(content):
    return Answer.take(content, "nobody")


def sent_profile(answer):
    return Profile.from_bytes(unpack(answer.message).payload)


def test_a_query_is_answered_with_the_profile_under_the_global_weights():
    answer = taken(send(Node(client_app(DATA), "a"), question(version=4)).content)
    assert (answer.name, answer.samples, answer.failure) == ("a", 40, "")
    assert sent_profile(answer) == profile(model(), DATA, "fc1", version=4)


def test_a_training_reply_carries_the_profile_made_before_training():
    reply = send(Node(client_app(DATA), "a"), question(version=2), "train")
    trained = Net()
    trained.load_state_dict(reply.content["arrays"].to_torch_state_dict())
    found = sent_profile(taken(reply.content))
    assert found == profile(model(), DATA, "fc1", version=2)
    assert found != profile(trained, DATA, "fc1", version=2)


def test_a_message_from_a_plain_server_passes_as_it_is():
    assert KEY not in send(Node(client_app(DATA), "a"), None, "train").content


def test_the_users_code_never_sees_the_question():
    seen = []
    app = client_app(DATA)

    @app.train("look")
    def look(message, context):
        seen.extend(message.content)
        return Message(RecordDict(), reply_to=message)

    send(Node(app, "a"), question(), "train.look")
    assert seen == ["arrays", "config"]


def test_without_a_matching_message_only_name_and_sample_count_are_sent():
    answer = taken(send(Node(client_app(DATA), "a"), Question(0)).content)
    assert answer == Answer("a", 40)


def failing(error):
    def source(context):
        raise error

    return source


ERRORS = [AssertionError("x"), KeyError("partition-id"), OSError("disk"), RuntimeError("no camera"), ValueError()]


@pytest.mark.parametrize("error", ERRORS)
def test_a_client_that_cannot_profile_says_why_and_trains_all_the_same(error):
    reply = send(Node(client_app(DATA, source=failing(error)), "a"), question(), "train")
    assert reply.content["metrics"]["num-examples"] == 40
    answer = taken(reply.content)
    assert answer.message == b""
    assert answer.failure.startswith(type(error).__name__)


def test_a_layer_the_model_lacks_is_a_failure_that_names_it():
    answer = taken(send(Node(client_app(DATA), "a"), question(layer="fc9")).content)
    assert "no layer 'fc9'" in answer.failure


def test_the_clients_own_layer_wins_over_the_servers():
    node = Node(client_app(DATA, source=lambda context: (Net(), DATA, "fc1")), "a")
    answer = taken(send(node, question(layer="fc2")).content)
    assert sent_profile(answer) == profile(model(), DATA, "fc1")


def test_a_server_that_asks_in_another_way_is_refused():
    answer = taken(send(Node(client_app(DATA, matching="masked"), "a"), question(matching="plain")).content)
    assert answer.message == b""
    assert "use the same matching= on server and clients" in answer.failure


def test_an_unknown_way_of_matching_is_refused_at_once():
    with pytest.raises(SettingsError, match="'homomorphic'"):
        fedprof_mod(lambda context: (Net(), DATA), matching="homomorphic")


@pytest.mark.parametrize("matching", ["plain", "client", "masked"])
def test_a_client_that_insists_on_nothing_answers_as_it_is_asked(matching):
    node = Node(client_app(DATA, matching=None), "a")
    answer = taken(send(node, question(matching=matching)).content)
    assert unpack(answer.message).scheme.name.lower() == matching


@pytest.mark.parametrize("app", [None, "plain"])
def test_the_nodes_operator_has_the_last_word_on_matching(app):
    node = Node(client_app(DATA, matching=app), "a")
    node.context.node_config["matching"] = "masked"
    assert "use the same matching=" in taken(send(node, question(matching="plain")).content).failure
    assert taken(send(node, question(matching="masked")).content).failure == ""


def test_a_misspelt_node_config_sends_nothing_and_says_why():
    node = Node(client_app(DATA, matching=None), "a")
    node.context.node_config["matching"] = "mask"
    answer = taken(send(node, question(matching="plain")).content)
    assert answer.message == b""
    assert "matching is 'mask'" in answer.failure


def test_the_mod_works_in_ones_own_client_app():
    app = ClientApp(mods=[fedprof_mod(lambda context: (Net(), DATA))])
    app.query("fedprof")(fedprof_query)
    answer = taken(send(Node(app, "a"), question()).content)
    assert sent_profile(answer) == profile(model(), DATA, "fc1")


def test_a_private_client_answers_once_for_each_model_version():
    node = Node(client_app(DATA, matching="client"), "a")
    assert taken(send(node, question(3, "client")).content).failure == ""
    assert "already asked about model version 3" in taken(send(node, question(3, "client")).content).failure
    assert taken(send(node, question(4, "client")).content).failure == ""


def overflowing(unit):
    """Weights that the server chose so that one unit's mean, or none, is beyond float32 on these data."""
    net = model()
    with torch.no_grad():
        net.fc1.bias[unit] = float("inf")
    return ArrayRecord(net.state_dict())


@pytest.mark.parametrize("agreed", ["client", "masked", None])
def test_a_hidden_profile_that_cannot_be_made_is_refused_in_words_that_do_not_depend_on_the_data(agreed):
    """Which unit overflows, or whether one does, would tell the server of the data, and as often as it likes."""
    asked = question(matching=agreed or "masked")
    answers = [taken(send(Node(client_app(DATA, agreed), "a"), asked, arrays=overflowing(k)).content) for k in (1, 5)]
    unlike = Node(client_app(DATA, agreed, source=failing(ValueError("patient 17"))), "a")
    answers.append(taken(send(unlike, asked).content))
    assert {answer.failure for answer in answers} == {"MatchingError: cannot profile; the node's own log says why"}


def test_a_node_says_nothing_of_its_data_either_when_it_is_asked_for_its_name():
    node = Node(client_app(DATA, "masked", source=failing(ValueError("patient 17"))), "a")
    assert "patient" not in taken(send(node, Question(0)).content).failure


@pytest.mark.parametrize("matching", ["client", "masked"])
def test_a_refusal_uses_up_the_version(matching):
    """Else every set of weights that overflows on some data and not on others would be a question for nothing."""
    node = Node(client_app(DATA, matching), "a")
    assert "cannot profile" in taken(send(node, question(3, matching), arrays=overflowing(0)).content).failure
    assert "already asked about model version 3" in taken(send(node, question(3, matching)).content).failure
    assert taken(send(node, question(4, matching)).content).failure == ""


def test_the_nodes_own_log_says_why(caplog):
    send(Node(client_app(DATA, "masked"), "a"), question(matching="masked"), arrays=overflowing(4))
    assert "mean[4] is nan" in caplog.text


@pytest.mark.parametrize("first", ["impossible", "honest"])
def test_a_second_message_uses_up_the_key_in_the_nodes_memory_whether_it_is_answered_or_not(first):
    node = Node(client_app(DATA, "masked"), "a")
    server = make("masked").server(profile(model(), loader(99), "fc1"))
    answer = server.receive(taken(send(node, Question(0, server.ask(), layer="fc1")).content).message)
    impossible = bytes(ring.POLYNOMIAL_BYTES) + (ring.Q // 3).to_bytes(ring.SCALAR_BYTES, "little")
    sent = {"honest": answer, "impossible": replace(unpack(answer), payload=impossible).pack()}
    once = taken(send(node, Question(0, sent[first], second=True)).content)
    assert bool(once.message) == (first == "honest")
    assert len(node.context.state[KEY]["matching"]) == 8, "the key is forgotten"
    again = taken(send(node, Question(0, answer, second=True)).content)
    assert again.failure == "MatchingError: cannot finish matching; the node's own log says why"


@pytest.mark.parametrize(
    ("config", "name"),
    [({"name": "site-7", "partition-id": 2}, "site-7"), ({"partition-id": 2}, "partition-2"), ({}, "node-77")],
)
def test_a_client_is_named_by_its_node_config(config, name):
    node = Node(client_app(DATA), node_id=77)
    node.context.node_config.update(config)
    assert taken(send(node, Question(0)).content).name == name


def test_weights_that_came_as_a_list_are_loaded_by_position():
    arrays = ArrayRecord([array.numpy() for array in ArrayRecord(model().state_dict()).values()])
    answer = taken(send(Node(client_app(DATA), "a"), question(), arrays=arrays).content)
    assert sent_profile(answer) == profile(model(), DATA, "fc1")


def test_weights_of_another_model_are_a_failure():
    arrays = ArrayRecord({"other": torch.zeros(3)})
    assert "RuntimeError" in taken(send(Node(client_app(DATA), "a"), question(), arrays=arrays).content).failure


def test_a_question_without_a_model_is_a_failure():
    node = Node(client_app(DATA), "a")
    reply = node(Message(RecordDict({KEY: question().to_record()}), 5, QUERY))
    assert "without a model" in taken(reply.content).failure


def test_data_of_unknown_size_cannot_be_counted_but_can_be_profiled():
    batches = [x for x, _ in DATA]
    node = Node(client_app(DATA, source=lambda context: (Net(), iter(batches))), "a")
    assert "cannot tell how many samples" in taken(send(node, Question(0)).content).failure
    assert taken(send(node, question()).content).samples == 40
