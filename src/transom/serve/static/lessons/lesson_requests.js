// Whether there is a program behind the page that computes lessons: not in a page of one file, nor on the site.

import { isOffline } from "../offline.js";

export const canCompute = !isOffline && document.documentElement.dataset.version === undefined;
