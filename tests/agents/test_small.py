import jax
import numpy as np
import pytest

from jaxprune.agents import BCConfig, BCQConfig, bc, bcq
from jaxprune.agents.small import small_dense
from jaxprune.data.transitions import Spec
from jaxprune.parameters import prunable_leaves
from jaxprune.pruning.masks import kept_count
from jaxprune.pruning.prune import below

SPEC = Spec(11, 3, (-1.0,) * 3, (1.0,) * 3)


def sizes(agent):
    """{perceptron: number of kernel weights}, from the arrays that `init` would make."""
    out = {}
    for name, network in agent.networks.items():
        leaves = prunable_leaves(jax.eval_shape(network.init, jax.random.key(0)))
        for chain in network.chains:
            out[f"{name}/{chain}"] = sum(int(np.prod(leaf.shape)) for path, leaf in leaves.items() if below(chain, path))
    return out


@pytest.mark.parametrize("sparsity", [0, 0.5, 0.9, 0.95, 0.99])
@pytest.mark.parametrize("agent", [bc(SPEC), bcq(SPEC)], ids=["bc", "bcq"])
def test_as_many_weights_as_fit(agent, sparsity):
    small = small_dense(agent, sparsity)
    budgets = {chain: kept_count(sparsity, size) for chain, size in sizes(agent).items()}
    assert all(size <= budgets[chain] for chain, size in sizes(small).items())
    full = {f"{name}/{group.name}": group.size for name in agent.order for group in agent.groups(name)}
    for group, width in small.widths:
        if width < full[group]:
            wider = sizes(agent.with_widths({**dict(small.widths), group: width + 1}))
            assert any(size > budgets[chain] for chain, size in wider.items())


def test_by_hand():
    # 11·h + h·h + 3·h weights: 680 at h = 20, 275 at h = 11.
    assert dict(small_dense(bc(SPEC, BCConfig(hidden=(20, 20))), 1 - 275 / 680).widths) == {"policy/Dense_0": 11, "policy/Dense_1": 11}


def test_sparsity_zero_is_the_agent_itself_in_size():
    agent = bcq(SPEC, BCQConfig(hidden=(16, 12), vae_hidden=(20, 20)))
    assert sizes(small_dense(agent, 0)) == sizes(agent)


def test_only_the_networks_asked_for():
    agent = bcq(SPEC)
    small = sizes(small_dense(agent, 0.9, networks="actor"))
    assert {name for name, size in sizes(agent).items() if small[name] != size} == {"actor/"}


def test_what_no_width_can_reach_is_refused():
    with pytest.raises(ValueError, match=r"policy.*one unit"):
        small_dense(bc(SPEC, BCConfig(hidden=(8, 8))), 0.99)
    with pytest.raises(ValueError, match="no network 'critic'"):
        small_dense(bc(SPEC), 0.5, networks="critic")
