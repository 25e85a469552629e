"""RotoGrad for one model without heads: gradients of equal length, the forget gradient rotated by a learned angle."""

from __future__ import annotations

import math

from search_spaces.fields import LOG, Field
from trainables.weightings import rotograd_scale
from trainables.weightings.base import Gramian, Losses, Needs, Options, State, Weighting, Weights, require_gramian

_NO_PLANE = 1e-6
"""Below this sine of their angle, the two gradients are parallel or opposed and span no plane for a rotation."""


def weigh(losses: Losses, gramian: Gramian | None, state: State, options: Options) -> tuple[Weights, State]:
    """``d = C (u_r + R u_f)``: ``u_i`` are unit gradients, ``R`` rotates ``u_f`` by ``theta`` towards ``u_r``.

    From RotoGrad: the common length ``C`` (:mod:`trainables.weightings.rotograd_scale`); and a rotation per task,
    initially the identity, learned during training by gradient descent on ``-<R u_f, v>``, with ``v`` the mean of the
    unit gradients, so that the rotated gradient aligns with ``v``.

    Adapted here: RotoGrad rotates gradients with respect to a shared representation, with a matrix before each task's
    head, which is trained along and compensates. Here both tasks share one head, so the gradient with respect to the
    parameters is rotated in the plane of the two gradients, by one angle. With ``omega`` the angle between the
    gradients, descent on that objective is ``theta += rate cos(omega/2) sin(omega/2 - theta)``. The rotation applied is
    at most ``omega/2``, where the two are aligned, and at most ``pi - omega``, beyond which ``g_f.d`` would be
    negative; so ``g_r.d >= 0`` and ``g_f.d >= 0``. Only the forget gradient is rotated, because rotating both alike
    would not change the direction of ``u_r + u_f``. The first step is that of rotograd-scale.

    The state holds ``theta`` in radians and the first norms. A zero gradient: (1, 1), and nothing is learned. Parallel
    or opposed gradients span no plane: the weights of rotograd-scale, and ``theta`` stays.
    """
    gramian = require_gramian(gramian)
    scale, new_scale = rotograd_scale.weigh(losses, gramian, state, options)
    theta = state.get("theta", 0.0)
    new = {**new_scale, "theta": theta}
    sine = math.sqrt((1.0 - gramian.k) * (1.0 + gramian.k))
    if gramian.rho == 0 or gramian.phi == 0 or sine < _NO_PLANE:
        return scale, new
    omega = math.atan2(sine, -gramian.k)
    applied = min(theta, omega / 2.0, math.pi - omega)
    new["theta"] = theta + options["rate"] * math.cos(omega / 2.0) * math.sin(omega / 2.0 - theta)
    # R u_f = (sin(omega - theta) u_f + sin(theta) u_r) / sin(omega)
    retain = scale.retain * (1.0 + math.sin(applied) / sine)
    forget = scale.forget * math.sin(omega - applied) / sine
    return Weights(retain, forget), new


WEIGHTING = Weighting(
    name="rotograd",
    formula="C (u_r + R u_f), u_i = g_i/|g_i|, R rotates towards u_r by a learned angle; an adaptation: no heads",
    needs=Needs.GRAMIAN,
    weigh=weigh,
    citation="Javaloy & Valera, RotoGrad: Gradient Homogenization in Multitask Learning, ICLR 2022 (arXiv:2103.02631), "
    "adapted",
    options=(
        Field("rate", 0.1, "learning rate of the angle; 0 is rotograd-scale", low=0.0, high=1.0).searched(
            0.01, 1.0, LOG, "RotoGrad (arXiv:2103.02631): rotations learn slower than the model"
        ),
    ),
)
