// How strongly one token reads another, from 0 to 1, by weight or by influence; and how brightly a head is lit.

const FULL_LIGHT = 0.05; // nats: where the strongest head changes less, none is lit fully

const matrixPeak = (matrix) => Math.max(0, ...matrix.flat().map(Math.abs));

// The largest change by one edge, and by one head, of a run's influence.
function peaksOf(influence) {
  const edges = Math.max(FULL_LIGHT, ...(influence.edges ?? []).map((one) => (one ? matrixPeak(one) : 0)));
  const heads = Math.max(0, ...influence.heads.flat().map((one) => Math.abs(one ?? 0)));
  return { edges, heads: influence.by === "influence" ? Math.max(FULL_LIGHT, heads) : heads || 1 };
}

export class FlowStrengths {
  constructor({ mean, influence, by, peek }) {
    Object.assign(this, { mean, influence, by, peek });
    this.peaks = influence ? peaksOf(influence) : null;
  }

  // Whether influence is asked for and known.
  get byInfluence() {
    return this.by === "influence" && Boolean(this.influence?.edges);
  }

  // Row and key count within the window.
  of(index, row, key) {
    if (this.peek?.index === index && this.peek.weights) return this.peek.weights[row]?.[key] ?? 0;
    if (this.byInfluence) {
      const change = this.influence.edges[index]?.[row]?.[key] ?? 0;
      return Math.sqrt(Math.abs(change) / this.peaks.edges);
    }
    return this.mean?.[index]?.[row]?.[key] ?? 0;
  }

  // Whether an edge makes the next token less likely; known only where influence is shown.
  edgeHinders(index, row, key) {
    return this.byInfluence && this.peek?.index !== index && this.influence.edges[index]?.[row]?.[key] > 0;
  }

  // Whether a head makes the next token less likely.
  hinders(index, head) {
    return this.influence?.by === "influence" && this.influence.heads[index]?.[head] > 0;
  }

  // How brightly a head is lit; null as long as that is not known.
  light(index, head) {
    const found = this.influence?.heads[index]?.[head];
    return found === undefined || found === null ? null : Math.abs(found) / this.peaks.heads;
  }
}
