"""A greenhouse: the plants' water is an array of a struct in a struct, and evaporation lowers it where it is."""

# VERDICT WRONG
import numpy as np

import tapedebug as wp

POTS = 20
DAYS = 5


@wp.struct
class Plants:
    water: wp.array(dtype=float)
    mass: wp.array(dtype=float)


@wp.struct
class Greenhouse:
    plants: Plants
    sun: float
    leak: float


@wp.kernel
def grow(house: Greenhouse, given: wp.array(dtype=float), mass_next: wp.array(dtype=float)):
    i = wp.tid()
    water = house.plants.water[i] + given[i]
    mass_next[i] = house.plants.mass[i] + house.sun * water * water / (1.0 + water * water)


@wp.kernel
def dry(house: Greenhouse, given: wp.array(dtype=float), water_next: wp.array(dtype=float)):
    i = wp.tid()
    # EXPECT overwrite error: water_next
    water_next[i] = (1.0 - house.leak) * (house.plants.water[i] + given[i])


@wp.kernel
def harvest(house: Greenhouse, loss: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_add(loss, 0, (house.plants.mass[i] - 2.0) * (house.plants.mass[i] - 2.0))


rng = np.random.default_rng(8)
house = Greenhouse()
house.sun, house.leak = 0.4, 0.25
house.plants.water = wp.array(rng.uniform(0.2, 1.5, POTS), dtype=float, requires_grad=True)
house.plants.mass = wp.zeros(POTS, dtype=float, requires_grad=True)
given = wp.array(rng.uniform(0.0, 0.5, POTS), dtype=float, requires_grad=True)
loss = wp.zeros(1, dtype=float, requires_grad=True)
inputs = [given]

tape = wp.Tape(on_overwrite="ignore")
with tape:
    for day in range(DAYS):
        mass_next = wp.zeros(POTS, dtype=float, requires_grad=True)
        wp.launch(grow, dim=POTS, inputs=[house, given], outputs=[mass_next])
        water_next = house.plants.water
        # ADD: water_next = wp.zeros(POTS, dtype=float, requires_grad=True)
        # CALLED overwrite
        wp.launch(dry, dim=POTS, inputs=[house, given], outputs=[water_next])
        house.plants.water, house.plants.mass = water_next, mass_next
    wp.launch(harvest, dim=POTS, inputs=[house], outputs=[loss])
tape.backward(loss)
