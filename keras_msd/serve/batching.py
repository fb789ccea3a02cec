"""Texts of concurrent requests, encoded together."""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

BATCH = 256  # texts encoded in one call
WAITING = 16_384  # texts that may wait for their turn


class Overloaded(Exception):
    """More texts wait than there is room for."""


class Job(NamedTuple):
    """The texts of one request, and what their results are written to."""

    texts: list[str]
    results: asyncio.Future[Sequence[Any]]


class Batcher:
    """Collects what arrives while a batch is encoded, and encodes it as the next one.

    No request waits for others to come: an idle batcher begins at once.

    Args:
        encode: Function from texts to as many results. It runs in one thread of its
            own, so it need not be safe for several.

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
        self._jobs = deque[Job]()
        self._waiting = 0
        self._arrived = asyncio.Event()

    async def __call__(self, texts: list[str]) -> Sequence[Any]:
        """Return the results of some texts.

        Raises:
            Overloaded: Too many texts wait.
        """
        if self._waiting + len(texts) > WAITING:
            raise Overloaded
        job = Job(texts, asyncio.get_running_loop().create_future())
        self._jobs.append(job)
        self._waiting += len(texts)
        self._arrived.set()
        return await job.results

    async def work(self) -> None:
        """Encode what arrives, until the task is cancelled."""
        with ThreadPoolExecutor(1, "encode") as thread:
            while True:
                await self._arrived.wait()
                jobs = self._next()
                if not await self._run(thread, jobs) and len(jobs) > 1:
                    # One request's text made the batch fail; the others go on alone.
                    for job in jobs:
                        await self._run(thread, [job])

    def _next(self) -> list[Job]:
        jobs = [self._jobs.popleft()]
        size = len(jobs[0].texts)
        while self._jobs and size + len(self._jobs[0].texts) <= BATCH:
            jobs.append(self._jobs.popleft())
            size += len(jobs[-1].texts)
        self._waiting -= size
        if not self._jobs:
            self._arrived.clear()
        return jobs

    async def _run(self, thread: ThreadPoolExecutor, jobs: list[Job]) -> bool:
        """Encode some jobs and tell whether it worked; a single job gets the error."""
        texts = [text for job in jobs for text in job.texts]
        loop = asyncio.get_running_loop()
        try:
            results = await loop.run_in_executor(thread, self._encode, texts)
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
