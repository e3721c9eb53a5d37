import { defineConfig } from "vitest/config";

export default defineConfig({
  test: { include: ["tests/**/*.test.ts"], environment: "happy-dom", setupFiles: ["tests/parts.ts"], testTimeout: 20_000 },
});
