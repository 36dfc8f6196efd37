// What scores changed by hand do to the steps that follow: softmax and weighted sum, computed again.

// A panel as it would be with the edits, which map "row,key" to a score.
export function followEdits(panel, panels, edits) {
  const scores = panels.findLast((one) => /^(masked|scaled)/i.test(one.title));
  if (panel === scores) return { ...editScores(panel, edits), editable: true };
  if (!edits.size || !scores) return panel;
  const weights = editScores(scores, edits).values.map(softmax);
  const V = panels.find((one) => /^V\b/.test(one.title));
  if (/^weights/i.test(panel.title)) return replaceRows(panel, edits, (i) => weights[i]);
  if (!V || !/sum/i.test(panel.title) || weights[0].length !== V.values.length) return panel;
  const weightedSum = (i, d) => weights[i].reduce((sum, weight, j) => sum + weight * V.values[j][d], 0);
  return replaceRows(panel, edits, (i) => panel.values[i].map((_, d) => weightedSum(i, d)));
}

function editScores(panel, edits) {
  return { ...panel, values: panel.values.map((row, i) => row.map((value, j) => edits.get(`${i},${j}`) ?? value)) };
}

// The rows with an edit computed again; the arithmetic of the old values goes.
function replaceRows(panel, edits, compute) {
  const isEdited = (i) => [...edits.keys()].some((cell) => cell.startsWith(`${i},`));
  return { ...panel, values: panel.values.map((row, i) => (isEdited(i) ? compute(i) : row)), opens: null };
}

function softmax(scores) {
  const finite = scores.map((score) => (Number.isFinite(score) ? score : -Infinity));
  const most = Math.max(...finite);
  const powers = finite.map((score) => Math.exp(score - most));
  const total = powers.reduce((sum, one) => sum + one, 0);
  return powers.map((one) => (total ? one / total : 0));
}
