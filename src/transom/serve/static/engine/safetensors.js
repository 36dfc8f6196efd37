// A model.safetensors as arrays: float32 numbers, and int8 matrices times the scale of each row.

const SCALE = ".int8_scale";
const LARGEST_HEADER = 2 ** 22; // bytes

// Every parameter by name: { data: Float32Array, shape }.
export function readSafetensors(buffer) {
  const length = Number(new DataView(buffer).getBigUint64(0, true));
  if (!(length <= LARGEST_HEADER && 8 + length <= buffer.byteLength)) {
    throw new Error("the model's file should begin with a safetensors header, but it does not; take another copy");
  }
  const header = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 8, length)));
  const part = (name) => readTensor(buffer, 8 + length, name, header[name]);
  const tensors = new Map();
  for (const [name, info] of Object.entries(header)) {
    if (name === "__metadata__" || name.endsWith(SCALE)) continue;
    const data = info.dtype === "I8" ? scaleRows(part(name), part(name + SCALE)) : part(name);
    tensors.set(name, { data, shape: info.shape });
  }
  return tensors;
}

function readTensor(buffer, start, name, info) {
  const size = { F32: 4, I8: 1 }[info?.dtype];
  const [first, last] = info?.data_offsets ?? [];
  const count = info?.shape?.reduce((product, side) => product * side, 1);
  if (!size || last - first !== size * count || start + last > buffer.byteLength) {
    throw new Error(`the model's file should hold ${name} in float32 or int8, but it does not; take another copy`);
  }
  const bytes = buffer.slice(start + first, start + last); // a copy is aligned
  return size === 4 ? new Float32Array(bytes) : new Int8Array(bytes);
}

// Whole numbers times the scale of their row, rounded to float32 as Python does.
function scaleRows(numbers, scales) {
  const data = new Float32Array(numbers.length);
  const width = numbers.length / scales.length;
  for (let i = 0; i < data.length; i += 1) data[i] = numbers[i] * scales[Math.floor(i / width)];
  return data;
}
