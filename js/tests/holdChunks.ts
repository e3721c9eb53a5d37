/** Panels in tests have all chunks loaded, as those of JupyterLab and of reports. `chunks.test.ts` tests how they are fetched. */
import { loadAllChunks } from "../src/views/chunks.js";
import "../src/views/panel.js"; // defines them

await loadAllChunks();
