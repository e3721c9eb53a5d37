/** Every view of the panel in JupyterLab: nothing is cut off, covered or faint. */
import { testViews } from "./views.mjs";

testViews("lab");
