// Random signs, the same as torch.randint(0, 2) draws on a CPU: the Mersenne twister MT19937.

const [SIZE, MIDDLE] = [624, 397];

export class RandomSigns {
  constructor(seed) {
    this.state = new Uint32Array(SIZE);
    this.state[0] = seed;
    for (let i = 1; i < SIZE; i += 1) {
      const before = this.state[i - 1];
      this.state[i] = Math.imul(before ^ (before >>> 30), 1812433253) + i;
    }
    this.place = SIZE;
  }

  renew() {
    const { state } = this;
    for (let i = 0; i < SIZE; i += 1) {
      const joined = (state[i] & 0x80000000) | (state[(i + 1) % SIZE] & 0x7fffffff);
      state[i] = state[(i + MIDDLE) % SIZE] ^ (joined >>> 1) ^ (joined & 1 ? 0x9908b0df : 0);
    }
    this.place = 0;
  }

  // 1 or −1.
  next() {
    if (this.place === SIZE) this.renew();
    let bits = this.state[this.place];
    this.place += 1;
    bits ^= bits >>> 11;
    bits ^= (bits << 7) & 0x9d2c5680;
    bits ^= (bits << 15) & 0xefc60000;
    bits ^= bits >>> 18;
    return bits & 1 ? 1 : -1;
  }
}
