"""Duels under sites where items have effects, by the covariance of all duels: no Woodbury."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class SlowEffects(NamedTuple):
    """z = H (B u + F e), u ~ N(0, I), e ~ N(0, s² I)."""

    features: np.ndarray
    """B, (rows, m)."""
    item: np.ndarray
    """(rows,) the item of each row, 0, 1, …"""
    winners: np.ndarray
    losers: np.ndarray
    variance: float

    def differences(self) -> np.ndarray:
        """H, (t, rows)."""
        found = np.zeros((len(self.winners), len(self.features)))
        for site, (winner, loser) in enumerate(zip(self.winners, self.losers, strict=True)):
            found[site, loser] += 1.0
            found[site, winner] -= 1.0
        return found

    def variables(self) -> np.ndarray:
        """How z is made of independent N(0, 1), u and e / s side by side, (t, m + n)."""
        effects = np.sqrt(self.variance) * np.eye(self.item.max() + 1)[self.item]
        return self.differences() @ np.hstack([self.features, effects])

    def posterior(self, tau: np.ndarray, nu: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean and covariance of u and e / s under sites."""
        phi = self.variables()
        covariance = np.linalg.inv(np.eye(phi.shape[1]) + phi.T @ np.diag(tau) @ phi)
        return covariance @ phi.T @ nu, covariance

    def value(self, tau: np.ndarray, nu: np.ndarray) -> float:
        """½ s' (K⁻¹ + T)⁻¹ s - ½ log|I + T^½ K T^½| of z ~ N(0, K)."""
        phi, root = self.variables(), np.sqrt(tau)
        k = phi @ phi.T
        inner = np.eye(len(tau)) + root[:, None] * k * root
        explained = k @ nu
        half = np.linalg.solve(inner, root * explained)
        quadratic = 0.5 * (nu @ explained - (root * explained) @ half)
        return float(quadratic - 0.5 * np.linalg.slogdet(inner)[1])
