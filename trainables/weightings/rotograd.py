"""RotoGrad without task heads: scale both gradients to equal length, and rotate the forget gradient by an angle."""

from __future__ import annotations

import math

from search_spaces.common.fields import LOG, Field
from trainables.weightings import rotograd_scale
from trainables.weightings.base import Gramian, Losses, Needs, Options, State, Weighting, Weights

_MIN_SINE = 1e-6
"""If the sine of the gradients' angle is below this value, the gradients count as parallel or opposed."""


def weigh(losses: Losses, gramian: Gramian, state: State, options: Options) -> tuple[Weights, State]:
    """Return the weights of ``d = C (u_r + R u_f)``, with the unit gradients ``u_i`` and a rotation ``R``.

    As in RotoGrad, both gradients are scaled to length ``C`` (:mod:`trainables.weightings.rotograd_scale`). ``R``
    rotates ``u_f`` towards ``u_r``. The rotation is learned by gradient descent on ``-<R u_f, v>``, where ``v`` is the
    mean of the unit gradients.

    The published RotoGrad rotates the gradients of a shared representation, with a matrix before each task's head. Here
    both tasks share one head. So the forget gradient of the parameters is rotated, in the plane of the two gradients,
    by an angle ``theta``. With the angle ``omega`` between the gradients, gradient descent gives
    ``theta += rate cos(omega/2) sin(omega/2 - theta)``. The applied angle is at most ``omega/2``, at which ``R u_f``
    aligns with ``v``, and at most ``pi - omega``, so that ``g_f.d >= 0``. At the first step, the weights are those of
    rotograd-scale.

    The state holds the angle ``theta`` in radians and the gradient norms of the first step. If a gradient is zero, the
    weights are (1, 1). For parallel or opposed gradients, the weights are those of rotograd-scale. In all
    these cases, ``theta`` does not change.
    """
    scale_weights, scale_state = rotograd_scale.weigh(losses, gramian, state, options)
    theta = state.get("theta", 0.0)
    new_state = {**scale_state, "theta": theta}
    sine = math.sqrt((1.0 - gramian.k) * (1.0 + gramian.k))
    if gramian.rho == 0 or gramian.phi == 0 or sine < _MIN_SINE:
        return scale_weights, new_state
    omega = math.atan2(sine, -gramian.k)
    applied_angle = min(theta, omega / 2.0, math.pi - omega)
    new_state["theta"] = theta + options["rate"] * math.cos(omega / 2.0) * math.sin(omega / 2.0 - theta)
    # R u_f = (sin(omega - theta) u_f + sin(theta) u_r) / sin(omega)
    w_r = scale_weights.retain * (1.0 + math.sin(applied_angle) / sine)
    w_f = scale_weights.forget * math.sin(omega - applied_angle) / sine
    return Weights(w_r, w_f), new_state


WEIGHTING = Weighting(
    name="rotograd",
    formula="C (u_r + R u_f), where u_i = g_i/|g_i|, C is as in rotograd-scale, and R rotates towards u_r by a learned "
    "angle; adapted to tasks that share one head",
    needs=Needs.GRAMIAN,
    weigh=weigh,
    citation="Javaloy & Valera, RotoGrad: Gradient Homogenization in Multitask Learning, ICLR 2022 (arXiv:2103.02631), "
    "adapted",
    options=(
        Field("rate", 0.1, "learning rate of the angle; 0 gives rotograd-scale", low=0.0, high=1.0).searched(
            0.01, 1.0, LOG, "in RotoGrad (arXiv:2103.02631), rotations learn more slowly than the model"
        ),
    ),
)
