/** Every view of the panel in Notebook 7: nothing is cut off, covered or faint. */
import { testViews } from "./views.mjs";

testViews("notebook7");
