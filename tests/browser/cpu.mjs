/** Processor time of processes and of all that they started, from /proc; NaN on systems without it. */
import { readdirSync, readFileSync } from "node:fs";

/** Units of the times in /proc in a second: Linux says 100 to programs, whatever its own clock. */
const TICKS = 100;

/** The parent of a process, and the time of it and of those that it waited for; null if it has just ended. */
function statOf(name) {
  try {
    const text = readFileSync(`/proc/${name}/stat`, "utf8");
    const fields = text.slice(text.lastIndexOf(")") + 2).split(" "); // the name before may have blanks
    const ticks = fields.slice(11, 15).reduce((sum, field) => sum + Number(field), 0);
    return { parent: Number(fields[1]), seconds: ticks / TICKS };
  } catch {
    return null;
  }
}

/** Seconds that this process used, with the processes that it started and that have ended. */
export const cpuSecondsHere = () => statOf("self")?.seconds ?? Number.NaN;

/** Seconds that these processes used up to now, with all that they started. */
export function cpuSeconds(roots) {
  const processes = new Map();
  try {
    for (const name of readdirSync("/proc").filter((entry) => /^\d+$/.test(entry))) {
      const stat = statOf(name);
      if (stat !== null) processes.set(Number(name), stat);
    }
  } catch {
    return Number.NaN;
  }
  const belongs = (pid) => processes.has(pid) && (roots.includes(pid) || belongs(processes.get(pid).parent));
  return [...processes].reduce((sum, [pid, { seconds }]) => (belongs(pid) ? sum + seconds : sum), 0);
}
