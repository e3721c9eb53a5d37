import { defineConfig } from "vitest/config";

export default defineConfig({
  test: {
    include: ["tests/**/*.test.ts"],
    environment: "happy-dom",
    // one document for the files of a worker: to make one for each takes twice as long as all tests do
    isolate: false,
    setupFiles: ["tests/holdChunks.ts"],
    testTimeout: 20_000,
  },
});
