// Lessons without a server: files of the site, and answers to their questions, judged by their digits.

const NEEDS_PYTHON = "needs Python: pip install transom, then transom serve";

const failed = (error, status) => Response.json({ error }, { status });

// A file of the site that holds an answer.
async function fileResponse(path) {
  const response = await fetch(`answers${path}.json`);
  return response.ok ? response : failed("this is not part of the site; use transom serve", 404);
}

// Whether a number is right to the digits that were asked for; the causes of a mistake are found by Python alone.
async function judgeAnswer({ number, screen, answer }) {
  const response = await fileResponse(`/api/lessons/${Number(number)}`);
  if (!response.ok) return response;
  const predict = (await response.json()).screens[screen]?.predict;
  if (!predict) return failed("this screen asks nothing; choose one that does", 400);
  const right = Math.abs(Number(answer) - Number(predict.right)) <= 0.5 * 10 ** -predict.digits + 1e-9;
  return Response.json({ right, answer: String(predict.right), causes: [] });
}

// What the server would have responded about lessons and words.
export function lessonResponse(path, { method = "GET", body } = {}) {
  if (method === "GET") return fileResponse(path.split("?")[0]);
  if (path === "/api/lessons/answer") return judgeAnswer(JSON.parse(body));
  const what = path === "/api/lessons/change" ? "a changed number" : "checking a lesson";
  return failed(`${what} ${NEEDS_PYTHON}`, 400);
}
