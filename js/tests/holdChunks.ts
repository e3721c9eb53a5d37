/** Panels of tests have all their parts at hand, as those of JupyterLab and of reports. How they are fetched: `parts.test.ts`. */
import { holdAllChunks } from "../src/views/allChunks.js";

holdAllChunks();
