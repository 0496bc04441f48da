"""One episode with random actions."""

# ANCHOR: episode
import conche
from conche.gym import Environment

environment = Environment(conche.Experiment("lossy-lan").only(loss="5%"), nodes="switch")
observation, info = environment.reset(seed=1)
over, total = False, 0.0
while not over:
    action = environment.action_space.sample()
    observation, reward, terminated, truncated, info = environment.step(action)
    total += reward
    over = terminated or truncated
# ANCHOR_END: episode

print(f"{info['decision'] + 1} decisions in {info['time']:.0f} s, reward {total:.0f}")
environment.close()
