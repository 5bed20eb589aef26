import type { Dispatcher } from 'undici';

/**
 * The same dispatcher for `fetch`, which is not shown how a body is packed: it would unpack it leniently, and half an answer
 * would pass for a whole one. `heard` gets the encoding.
 */
export function packedDispatcher(dispatcher: Dispatcher, heard: { encoding?: string }): Dispatcher {
  return dispatcher.compose(
    (dispatch) => (options, handler) =>
      dispatch(options, {
        onRequestStart: (...about) => handler.onRequestStart?.(...about),
        onRequestUpgrade: (...about) => handler.onRequestUpgrade?.(...about),
        onResponseStart(controller, status, ...[{ 'content-encoding': encoding, ...headers }, message]) {
          // Others announce an answer, and `fetch` passes them over.
          if (status < 200) return;
          heard.encoding = [encoding ?? []].flat().join(',');
          handler.onResponseStart?.(controller, status, headers, message);
        },
        onResponseData: (...about) => handler.onResponseData?.(...about),
        onResponseEnd: (...about) => handler.onResponseEnd?.(...about),
        onResponseError: (...about) => handler.onResponseError?.(...about),
      }),
  );
}
