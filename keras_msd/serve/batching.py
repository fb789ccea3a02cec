"""Texts of concurrent requests, encoded together."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

BATCH = 256  # texts; a call gets no further request when it has as many


class Job(NamedTuple):
    """The texts of one request, and what their results are written to."""

    texts: list[str]
    results: asyncio.Future[Sequence[Any]]


class Batcher:
    """Collects what arrives while a batch is encoded, and encodes it as the next one.

    No request waits for others to come: an idle batcher begins at once.

    Args:
        encode: Function from texts to as many results. It runs once at a time, in a
            thread.

    Example:
        >>> import asyncio
        >>> from keras_msd.serve.batching import Batcher
        >>> async def main():
        ...     batcher = Batcher(lambda texts: [len(text) for text in texts])
        ...     work = asyncio.create_task(batcher.work())
        ...     found = await asyncio.gather(batcher(["a", "cat"]), batcher(["sleeps"]))
        ...     work.cancel()
        ...     return found
        >>> asyncio.run(main())
        [[1, 3], [6]]
    """

    def __init__(self, encode: Callable[[list[str]], Sequence[Any]]) -> None:
        self._encode = encode
        self._jobs = asyncio.Queue[Job]()

    async def __call__(self, texts: list[str]) -> Sequence[Any]:
        """Return the results of some texts."""
        job = Job(texts, asyncio.get_running_loop().create_future())
        self._jobs.put_nowait(job)
        return await job.results

    async def work(self) -> None:
        """Encode what arrives, until the task is cancelled."""
        while True:
            jobs = [await self._jobs.get()]
            size = len(jobs[0].texts)
            while size < BATCH and not self._jobs.empty():
                jobs.append(self._jobs.get_nowait())
                size += len(jobs[-1].texts)
            if not await self._run(jobs) and len(jobs) > 1:
                # One request's text made the batch fail; the others go on alone.
                for job in jobs:
                    await self._run([job])

    async def _run(self, jobs: list[Job]) -> bool:
        """Encode some jobs and tell whether it worked; a single job gets the error."""
        texts = [text for job in jobs for text in job.texts]
        try:
            results = await asyncio.to_thread(self._encode, texts)
        except Exception as error:  # handed to whoever waits for the results
            if len(jobs) == 1 and not jobs[0].results.done():
                jobs[0].results.set_exception(error)
            return False
        start = 0
        for job in jobs:
            end = start + len(job.texts)
            if not job.results.done():  # the client may have gone
                job.results.set_result(results[start:end])
            start = end
        return True
