"""Savings that grow by 6 % a year for 250 years: values and adjoints grow, and the gradient is of use."""

import numpy as np

import tapedebug as wp

ACCOUNTS = 5
YEARS = 250


@wp.kernel
def interest(capital: wp.array2d(dtype=float), rate: wp.array(dtype=float), year: int):
    i = wp.tid()
    capital[year + 1, i] = capital[year, i] * (1.0 + rate[i])


@wp.kernel
def total(capital: wp.array2d(dtype=float), years: int, wealth: wp.array(dtype=float)):
    wp.atomic_add(wealth, 0, capital[years, wp.tid()])


start = np.zeros((YEARS + 1, ACCOUNTS), dtype=np.float32)
start[0] = np.linspace(1.0, 3.0, ACCOUNTS)
capital = wp.array(start, dtype=float, requires_grad=True)
rate = wp.array(np.linspace(0.055, 0.065, ACCOUNTS), dtype=float, requires_grad=True)
wealth = wp.zeros(1, dtype=float, requires_grad=True)
loss = wealth

with wp.Tape() as tape:
    for year in range(YEARS):
        wp.launch(interest, dim=ACCOUNTS, inputs=[capital, rate, year])
    wp.launch(total, dim=ACCOUNTS, inputs=[capital, YEARS], outputs=[wealth])
tape.backward(wealth)
