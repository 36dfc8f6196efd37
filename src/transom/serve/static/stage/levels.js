// Which level draws a place.

import { BlockLevel } from "./block_level.js";
import { FeedForwardLevel } from "./feed_forward_level.js";
import { HeadLevel } from "./head_level.js";
import { ModelLevel } from "./model_level.js";
import { NumberLevel } from "./number_level.js";
import { RowLevel } from "./row_level.js";
import { UnitLevel } from "./unit_level.js";

const OF_HEADS = [null, ModelLevel, BlockLevel, HeadLevel, RowLevel, NumberLevel];
const OF_FEED_FORWARD = [null, ModelLevel, BlockLevel, FeedForwardLevel, UnitLevel];

export const levelClass = ({ level, part }) => (part ? OF_FEED_FORWARD : OF_HEADS)[level];
