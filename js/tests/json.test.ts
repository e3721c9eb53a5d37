import { describe, expect, it } from "vitest";
import { openSaved } from "../src/trace/json.js";
import { TraceModel } from "../src/trace/model.js";
import { openTrace } from "../src/trace/open.js";
import { TraceError } from "../src/trace/reader.js";
import { makeNet } from "./make.js";
import { packTrace } from "./pack.mjs";

describe("openSaved", () => {
  it("opens the JSON of files, and the panel takes what it opened", async () => {
    const model = await openSaved(makeNet());
    expect(model).toBeInstanceOf(TraceModel);
    expect(openTrace(model)).toBe(model);
  });

  it("leaves packed traces packed", async () => {
    const packed = packTrace(makeNet());
    expect(await openSaved(packed)).toBe(packed);
    const [model, same] = [openTrace(packed), openTrace(await openSaved(makeNet()))];
    expect(model.problems).toEqual([]);
    expect(model.launchCount).toBe(same.launchCount);
    for (let i = 0; i < model.launchCount; i++) expect(model.launch(i)).toEqual(same.launch(i));
    for (const { id } of model.trace.arrays) expect(model.versions(id)).toEqual(same.versions(id));
  });

  it.each([
    [null, "This is not a tapedebug trace: it is null, not an object."],
    [{ format: "other" }, 'This is not a tapedebug trace: its format is "other", not "tapedebug-trace".'],
  ])("hands on what is wrong with %j, for the panel to show", async (data, message) => {
    const error = await openSaved(data);
    expect(error).toEqual(new TraceError(message));
    expect(() => openTrace(error)).toThrow(message);
  });
});

describe("openTrace", () => {
  it.each([
    [makeNet(), 'This is not a tapedebug trace: it is of the format "tapedebug-trace", not "tapedebug-columns".'],
    [3, "This is not a tapedebug trace: it is 3, not an object."],
  ])("takes no other form", (data, message) => {
    expect(() => openTrace(data)).toThrow(new TraceError(message));
  });
});
