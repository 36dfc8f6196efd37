"""The glossary: the terms of attention in plain words. A test keeps docs/glossary.md equal to it.

`STEP_WORDS` are words for the steps of a lesson that a claim may use: `context` for `sum`.
"""

GLOSSARY = {
    "token": "a piece of text that the model reads as one unit: a word, a part of a word, a character",
    "embedding": "the vector of a token before it has seen any other token: the same in every text",
    "parameters": "the numbers that training changes (W_Q, W_K, W_V, W_O …): the same for every input",
    "query": "what a token asks for: its vector times W_Q, compared with every key",
    "key": "what a token answers to: its vector times W_K, compared with every query",
    "value": "what a token gives to those that look at it: its vector times W_V; the values are what is summed up",
    "score": "how well one query matches one key, before the softmax: any number; also called a logit",
    "scaling": "dividing scores by √d_head, so that their size does not grow with the width of queries and keys",
    "mask": "which keys a row may not look at: their scores are removed before the softmax, their weight is exactly 0",
    "softmax": "what turns a row of scores into weights: e to each score, divided by the sum of all of them",
    "weight": "the share of a row that goes to one key, after the softmax: a row sums to 1; computed, not learned",
    "context": "the weighted sum of the values: what a token takes from the tokens it looks at, itself included",
    "from and at": "a row looks from a token (its query), a column is looked at (its key)",
    "self-attention": "attention within one sequence: every token looks at all of it, itself included",
    "cross-attention": "attention from one sequence at another: a translation looks at the text it translates",
    "masked attention": "attention where a token does not see those after it, as when a text is generated",
    "head": "one of several attentions side by side, each with its own W_Q, W_K and W_V",
    "W_O": "the parameters that mix the outputs of all heads into one vector",
    "narrow head": "a head that sees only its own slice of each vector; the usual head sees the whole vector",
    "residual": "the input of a layer added to its output, so that a layer changes a vector instead of replacing it",
    "norm": "each vector brought to one size, so that layers can be stacked",
    "feed-forward": "what each token computes on its own between two attentions",
    "layer": "an attention with its residual, norm and feed-forward; in a stack, each works on the output of the last",
    "position": "where a token is in the text, added to its vector or to the scores: attention alone ignores order",
    "temperature": "what scores are divided by before the softmax: near 0 the best key gets all the weight, if large"
    " all keys get the same",
    "entropy": "how spread out a row of weights is, in nats: 0 if one key has all the weight, log n if n keys share it"
    " equally; marked (of log n), it is divided by log n, so that 1 means equal shares of any number of keys",
    "arrow": "one weight of one head: from the token that looks to the one it looks at; also called an edge",
    "receipt": "the proof that the weights shown are those the model used: with the values they reproduce its output,"
    " within a stated tolerance",
    "knock-out": "running the model again without an arrow, to see what changes: before the softmax the other keys"
    " share its weight, after it the weight is lost; also called ablation",
    "effect": "how much the output of the model changes when an arrow is knocked out: what mattered, while a weight is"
    " what was read",
    "value norm": "the length of the values that a row adds up, by weight: a large weight on a short value does little",
    "confidence": "the largest weight of a row, on average over the rows of a head",
    "sink": "a key that takes the weight that no other key should get, most often the first; also the share it gets",
    "induction": "looking at what came after an earlier copy of the current token, so that a sequence can be continued",
    "saturation": "weights so near 0 and 1 that a change of scores changes nothing, so that nothing is learned",
    "static embedding": "a vector for a token that is the same in every sentence",
    "contextual embedding": "a vector for a token after attention: it depends on the sentence",
    "rank": "how many independent directions a matrix has",
    "claim": "a figure in a lesson, checked to its printed digits",
    "slip": "a wrong figure or sentence in a note; a lesson shows it beside the right one",
}

STEP_WORDS = {
    "x": "embedding",
    "embeddings": "embedding",
    "input": "embedding",
    "inputs": "embedding",
    "position": "positions",
    "positional encoding": "positions",
    "q": "Q",
    "query": "Q",
    "queries": "Q",
    "k": "K",
    "key": "K",
    "keys": "K",
    "v": "V",
    "value": "V",
    "values": "V",
    "score": "scores",
    "raw scores": "scores",
    "dot products": "scores",
    "scaling": "scaled",
    "scaled scores": "scaled",
    "mask": "masked",
    "masked scores": "masked",
    "weight": "weights",
    "attention weights": "weights",
    "context": "sum",
    "contexts": "sum",
    "context vector": "sum",
    "context vectors": "sum",
    "weighted sum": "sum",
    "concat": "joined",
    "concatenated": "joined",
    "layer norm": "norm",
    "feed forward": "feed_forward",
    "ffn": "feed_forward",
}


def step_name(word: str) -> str:
    """The name of the step that a word means; a word that is not in STEP_WORDS stays as it is."""
    return STEP_WORDS.get(" ".join(word.lower().replace("_", " ").replace("-", " ").split()), word)
