// Which head, row and key the story tells of: what the model read that helped it most while it wrote.

// The head that helped the token on the stage most (of cross-attention if there is any), and its strongest arrow.
export function storyHead(stage) {
  const { run, data, shape } = stage;
  if (stage.told?.run === run.run && stage.told.isFinal) return stage.told;
  const token = stage.now.token;
  const influence = data.influence(token);
  const cross = run.attentions.filter((one) => one.role === "cross");
  const among = cross.length ? cross : run.attentions;
  let best = { attention: among.at(-1).index, head: 0, worth: -Infinity };
  for (const { index } of influence ? among : []) {
    influence.heads[index].forEach((change, head) => {
      if (-(change ?? 0) > best.worth) best = { attention: index, head, worth: -(change ?? 0) };
    });
  }
  const row = shape.predicts ? token : Math.min(1, run.attentions[best.attention].queries - 1);
  const keys = data.row(best.attention, best.head, row)?.keys;
  const key = keys ? keys.reduce((one, other) => (other.weight > one.weight ? other : one)).key : 0;
  stage.told = { ...best, row, key, run: run.run, isFinal: Boolean(influence && keys) };
  return stage.told;
}

// Of the first self-attention where some head looks one place back: what each head gives the token before.
export function previousTokenScores(stage) {
  const { run, data } = stage;
  let best = null;
  for (const { index, role } of run.attentions) {
    const found = data.thumbnails[index];
    const isExact = found && found.rows === run.attentions[index].queries && found.rows > 2;
    if (role === "cross" || !isExact) continue;
    const scores = found.cells.map((cells) => meanBefore(cells, found));
    const most = Math.max(...scores);
    if (!best || most > best.most + 0.05) best = { attention: index, scores, most };
  }
  return best;
}

function meanBefore(cells, { rows, columns }) {
  let sum = 0;
  for (let row = 1; row < rows; row += 1) sum += (cells[row * columns + row - 1] / 255) ** 2;
  return sum / (rows - 1);
}
